"""What the service answers, one file per noun, from message to question and from answer to message."""
