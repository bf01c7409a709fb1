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

PRICES: dict[str, float] = {
    "Tops": 25.0,
    "Knitwear": 50.0,
    "Outerwear": 110.0,
    "Trousers": 45.0,
    "Tailoring": 140.0,
    "Shoes": 80.0,
    "Accessories": 20.0,
    "Sportswear": 35.0,
}
"""The lowest price of each department."""
DEARER, STEPS = 0.15, 8
"""By how much of the lowest price each further style of a category costs more, and each of the steps in a style."""


def item_names(numbers: Integers, sectors: Integers) -> pl.DataFrame:
    """One row per item: its id (`p0412`), a title (`Linen Shirt 0412`), its department, category and style, and a price
    that follows from them and the number.

    `numbers`: the numbers in the ids. `sectors`: positions in `STYLES`.
    """
    import polars as pl

    digits = pl.Series(numbers).cast(pl.String).str.zfill(max(4, len(str(len(numbers)))))
    names = pl.DataFrame(STYLES, schema=["department", "category", "style"], orient="row")[sectors]
    steps = sectors % len(next(iter(HIERARCHY.values()))[1]) + numbers % STEPS
    lowest = names["department"].replace_strict(PRICES, return_dtype=pl.Float64)
    return names.select(
        ("p" + digits).alias("item"),
        (pl.col("style") + " " + pl.col("category") + " " + digits).alias("title"),
        "department",
        "category",
        "style",
        ((lowest * (1 + DEARER * pl.Series(steps))).round() - 0.05).round(2).alias("price"),
    )
