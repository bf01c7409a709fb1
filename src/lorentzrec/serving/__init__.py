"""From a published model to an answer on the web: versions, stores, service, page."""
