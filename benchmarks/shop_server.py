"""A server on the official SDK with up to ten tools of a shop, made of functions: ``COUNT PORT``."""

# ruff: noqa: ARG001

import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("shop", host="127.0.0.1", port=int(sys.argv[2]), log_level="ERROR")


def search_products(
    query: str, max_results: int = 10, in_stock_only: bool = False
) -> list[dict[str, str | float]]:
    """Searches the products of the shop by words, and gives number, name and price of each."""
    found = [{"number": f"D-{n}", "name": f"Oak desk {n}", "price": 100.5 + n} for n in range(5)]
    return found[:max_results]


def stock_of(number: str, warehouse: str | None = None) -> str:
    """How many pieces of a product are in stock, in all warehouses or in one."""
    return "12 pieces"


def create_order(customer: str, number: str, pieces: int = 1, note: str | None = None) -> str:
    """Orders pieces of a product for a customer, and gives the number of the order."""
    return "O-1"


def cancel_order(order: str, reason: str = "") -> str:
    """Cancels an order that was not sent yet."""
    return "canceled"


def order_status(order: str) -> str:
    """Where an order is: open, packed, sent or delivered."""
    return "open"


def find_customer(name: str | None = None, city: str | None = None, limit: int = 20) -> str:
    """Finds customers by name or city."""
    return "C-1 Ada"


def update_address(customer: str, street: str, city: str, postcode: str, country: str = "DE") -> str:
    """Changes the address of a customer; open orders are sent there."""
    return "changed"


def list_invoices(customer: str, unpaid_only: bool = True, since: str | None = None) -> str:
    """Lists the invoices of a customer, the newest first. Dates are written as 2026-01-31."""
    return "none"


def send_message(customer: str, subject: str, text: str, attachments: list[str] | None = None) -> str:
    """Sends an email to a customer. Attachments are numbers of invoices."""
    return "sent"


def shipping_cost(postcode: str, weight_in_kg: float, express: bool = False) -> str:
    """What it costs to send a parcel."""
    return "4.90"


TOOLS = (search_products, stock_of, create_order, cancel_order, order_status)
TOOLS += (find_customer, update_address, list_invoices, send_message, shipping_cost)
for tool in TOOLS[: int(sys.argv[1])]:
    server.tool()(tool)
server.run("streamable-http")
