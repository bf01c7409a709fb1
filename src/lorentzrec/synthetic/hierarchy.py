"""The product hierarchy of the synthetic shop: departments hold categories, categories come in styles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
"""Department -> its categories and the styles each comes in. Neighbours in this order are neighbours in taste."""

STYLES: tuple[tuple[str, str, str], ...] = tuple(
    (department, category, style)
    for department, (categories, styles) in HIERARCHY.items()
    for category in categories.split(", ")
    for style in styles
)
"""All (department, category, style), so that each department and each category is one unbroken run."""


def item_names(numbers: NDArray[np.int64], sectors: NDArray[np.int64]) -> pl.DataFrame:
    """One row per item: its id (`p0412`), a title (`Linen Shirt 0412`) and the place of its sector in the hierarchy.

    `numbers` are what ids are made of; `sectors` are places in `STYLES`.
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
