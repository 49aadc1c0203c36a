// A dialog as KNIME draws it. The controls, labels and headings are KNIME's own; what belongs to the window around
// them is here: elements of an array, the switch for advanced settings, a chooser of files without a file system.
import "./dialog.css";
import down from "@knime/styles/img/icons/arrow-down.svg";
import plus from "@knime/styles/img/icons/plus.svg";
import trash from "@knime/styles/img/icons/trash.svg";
import up from "@knime/styles/img/icons/arrow-up.svg";
import { createApp, defineComponent, h, ref, shallowRef } from "vue";
import { and, isObjectArray, isStringControl, optionIs, rankWith } from "@jsonforms/core";
import { DispatchRenderer } from "@jsonforms/vue";
import {
  JsonFormsDialog,
  controls,
  defineControl,
  defineLayout,
  layouts,
  mapControls,
  mapLayouts,
  priorityRanks,
  toRenderers,
  withLabel,
} from "@knime/jsonforms";

const showsAdvanced = ref(false);
const isHidden = (uischema) => uischema.options?.isAdvanced && !showsAdvanced.value;

const icon = (svg, name) => h("span", { class: "icon", innerHTML: svg, title: name });

// An array is a list of cards; its heading is the section that Python puts around it.
const arrayRenderer = {
  name: "Array",
  tester: rankWith(priorityRanks.default, isObjectArray),
  control: defineControl((props) => () => {
    const { data, path, schema, uischema } = props.control;
    const { detail, addButtonText = "New", arrayElementTitle = "Element", showSortButtons } = uischema.options;
    const buttons = [...(showSortButtons ? [icon(up, "Up"), icon(down, "Down")] : []), icon(trash, "Delete")];
    const element = (_, index) =>
      h("div", { class: "card", key: index }, [
        h("div", { class: "title" }, [h("span", `${arrayElementTitle} ${index + 1}`), ...buttons]),
        ...Object.values(detail).map((uischema) =>
          h(DispatchRenderer, { schema: schema.items, uischema, path: `${path}.${index}` }),
        ),
      ]);
    const add = h("button", { class: "add", type: "button" }, [icon(plus, ""), addButtonText]);
    return h("div", { class: "array" }, [...(data ?? []).map(element), add]);
  }),
};

const fileRenderer = withLabel()({
  name: "File",
  tester: rankWith(priorityRanks.default, and(isStringControl, optionIs("format", "stringFileChooser"))),
  control: controls.textRenderer.control,
});

const renderers = () =>
  toRenderers({
    renderers: [],
    controls: Object.values(
      mapControls((control) =>
        defineControl((props, context) => () =>
          isHidden(props.control.uischema) ? null : h(control, props, context.slots),
        ),
      )({ ...controls, fileRenderer, arrayRenderer }),
    ),
    layouts: Object.values(
      mapLayouts((layout) =>
        defineLayout((props, context) => () =>
          isHidden(props.layout.uischema) ? null : h(layout, props, context.slots),
        ),
      )(layouts),
    ),
    config: { performExternalValidation: async () => null },
  });

let app = null;

// Draws one dialog; `now` has the values as the controls have them, and how often one changed.
globalThis.draw = ({ data, schema, ui_schema: uischema }, advanced) => {
  app?.unmount();
  showsAdvanced.value = advanced;
  const now = (globalThis.now = { data: structuredClone(data), changes: [], isReady: false });
  const values = shallowRef(structuredClone(data));
  const hasAdvanced = JSON.stringify(uischema).includes('"isAdvanced":true');
  const Dialog = defineComponent(() => () =>
    h(
      JsonFormsDialog,
      {
        data: values.value,
        schema,
        uischema,
        renderers: renderersNow,
        validate: async () => null,
        onChange: ({ data: changed }) => {
          now.data = structuredClone(JSON.parse(JSON.stringify(changed)));
          now.changes.push(now.data);
        },
        onAlert: (alert) => console.error(alert.message),
        onInitialized: () => (now.isReady = true),
      },
      {
        bottom: () =>
          hasAdvanced
            ? h("a", { class: "advanced-switch" }, `${showsAdvanced.value ? "Hide" : "Show"} advanced settings`)
            : null,
      },
    ),
  );
  const renderersNow = renderers();
  app = createApp(Dialog);
  app.config.warnHandler = (message, _, trace) => console.error(message, trace);
  app.provide("getData", async () => ({ result: [], state: "SUCCESS", message: [] }));
  app.provide("registerWatcher", async () => () => {});
  app.mount("#dialog");
};
