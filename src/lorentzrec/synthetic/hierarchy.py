"""The product hierarchy of the synthetic shop: departments hold categories, categories come in styles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorentzrec.data.arrays import Integers

if TYPE_CHECKING:
    import polars as pl

HIERARCHY: dict[str, tuple[str, tuple[str, ...]]] = {
    "Tops": ("Shirt, T-Shirt, Polo, Vest", ("Linen", "Oxford", "Striped", "Organic Cotton")),
    "Knitwear": ("Jumper, Cardigan, Roll Neck, Hoodie", ("Merino", "Cashmere", "Cable Knit", "Fleece")),
    "Outerwear": ("Coat, Jacket, Parka, Gilet", ("Waxed", "Quilted", "Wool", "Waterproof")),
    "Trousers": ("Jeans, Chinos, Joggers, Shorts", ("Slim", "Relaxed", "Tapered", "Stretch")),
    "Tailoring": ("Suit, Blazer, Waistcoat, Dress Shirt", ("Tweed", "Herringbone", "Pinstripe", "Velvet")),
    "Shoes": ("Trainers, Boots, Loafers, Sandals", ("Leather", "Suede", "Canvas", "Vegan")),
    "Accessories": ("Belt, Scarf, Hat, Bag", ("Classic", "Woven", "Vintage", "Recycled")),
    "Sportswear": ("Running Top, Leggings, Swim Shorts, Track Jacket", ("Seamless", "Thermal", "Mesh", "Compression")),
}
"""Department -> its categories and their styles. What is near in this order appeals to similar customers."""

STYLES: tuple[tuple[str, str, str], ...] = tuple(
    (department, category, style)
    for department, (categories, styles) in HIERARCHY.items()
    for category in categories.split(", ")
    for style in styles
)
"""All (department, category, style), so that each department and each category is contiguous."""


def item_names(numbers: Integers, sectors: Integers) -> pl.DataFrame:
    """One row per item: its id (`p0412`), a title (`Linen Shirt 0412`) and its department, category and style.

    `numbers`: the numbers in the ids. `sectors`: positions in `STYLES`.
    """
    import polars as pl

    digits = pl.Series(numbers).cast(pl.String).str.zfill(max(4, len(str(len(numbers)))))
    names = pl.DataFrame(STYLES, schema=["department", "category", "style"], orient="row")[sectors]
    return names.select(
        ("p" + digits).alias("item"),
        (pl.col("style") + " " + pl.col("category") + " " + digits).alias("title"),
        "department",
        "category",
        "style",
    )
