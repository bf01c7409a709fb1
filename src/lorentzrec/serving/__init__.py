"""From a published model to recommendations over HTTP: versions, stores, service, page."""
