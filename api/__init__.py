"""Every way in: HTTP, webhooks, command line, web page, and the one composition root."""
