"""Training and batch recommendations on Spark.

from lorentzrec.spark import train, recommend_all
"""

from lorentzrec.spark.recommending import recommend_all as recommend_all
from lorentzrec.spark.training import train as train
