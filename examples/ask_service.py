"""How a shop uses the service from Python: `python examples/ask_service.py [URL]`."""

from __future__ import annotations

import os
import sys

from lorentzrec.serving.client import Client, ServiceError


def main(url: str = "http://127.0.0.1:8000") -> None:
    with Client(url, api_key=os.environ.get("API_KEY")) as client:
        model = client.model()
        print(f"{model.model}: {model.items} items in {model.dimension} dimensions, {model.live} of them live")

        popular = client.search(limit=3)
        history = [item.id for item in popular]
        found = client.recommend(history, k=5, reasons=True)
        for item in found.items:
            reasons = ", ".join(f"{reason.title or reason.item} ({reason.share:.0%})" for reason in item.because)
            why = f"because of {reasons}" if reasons else "fits the history as a whole"
            print(f"{item.score:8.3f}  {item.title or item.id}  {why}")

        client.add_events({"user": "example-customer", "item": item} for item in history)
        own = client.recommend(user="example-customer", k=5)
        assert [item.id for item in own.items] == [item.id for item in found.items] or own.model != found.model
        print(f"{client.forget('example-customer')} events erased")

        try:
            client.similar("no such item")
        except ServiceError as error:
            print(f"expected error: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
