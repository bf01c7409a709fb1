"""Airflow: copy to the folder of DAGs. A retry continues with the stage in which the run was stopped.

The exit codes 2 (settings), 15 (check) and 16 (gate) need a person: retries end with them again.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.bash import BashOperator

with DAG(
    "lorentzrec_daily",
    schedule="30 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
) as dag:
    BashOperator(
        task_id="daily",
        bash_command="lorentzrec daily /var/lib/lorentzrec/daily.toml",
        retries=3,
        retry_delay=timedelta(minutes=15),
        execution_timeout=timedelta(hours=6),
    )
