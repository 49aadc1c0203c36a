// What is wrong with a view, as texts: what is wider than the window, and what can hardly be read.
(() => {
  const wide = document.documentElement.clientWidth;
  const found = [];
  const numbers = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) =>
    0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const inside = (element) => {
    for (let each = element.parentElement; each; each = each.parentElement)
      if (getComputedStyle(each).overflowX !== "visible") return true;
    return false;
  };
  const whole = document.documentElement.scrollWidth;
  if (whole > wide) found.push(`the page is ${whole} wide`);
  for (const each of document.body.querySelectorAll("*")) {
    const box = each.getBoundingClientRect();
    const text = each.textContent.trim().slice(0, 40);
    if (!box.width) continue;
    if (box.right > wide + 1 && !inside(each)) found.push(`${each.tagName} stands out: ${text}`);
    if (![...each.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const both = [luminance(numbers(getComputedStyle(each).color)), luminance(behind(each))];
    const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (ratio < 4.5) found.push(`${each.tagName} has a contrast of ${ratio.toFixed(1)}: ${text}`);
  }
  return found;
})();
