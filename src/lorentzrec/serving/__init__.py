"""From a published model to a response over HTTP: versions, stores, service, page."""
