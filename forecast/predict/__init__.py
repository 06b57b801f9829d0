"""Models and fresh features become forecasts per job and per link."""
