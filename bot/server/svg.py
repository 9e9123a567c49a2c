"""Elements of SVG pictures, for the charts of the dashboard."""

from collections.abc import Iterable
from html import escape


def element(name: str, content: str = "", **attributes: str | float | None) -> str:
    """An element around `content`, which is markup.

    Numbers are rounded to a tenth, attributes that are None are left out, and `_` in an attribute's
    name becomes `-`; a trailing one is dropped (`class_`).
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_format(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{shown}>{content}</{name}>" if content else f"<{name}{shown}/>"


def text(x: float, y: float, words: str, **attributes: str | float | None) -> str:
    """`words` at a place; `text_anchor` is `start` unless it is given."""
    return element("text", escape(words), x=x, y=y, **attributes)


def picture(width: float, height: float, parts: Iterable[str], **attributes: str) -> str:
    return element(
        "svg",
        "\n" + "\n".join(parts) + "\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        **attributes,
    )


def _format(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else f"{round(value, 1):g}"
