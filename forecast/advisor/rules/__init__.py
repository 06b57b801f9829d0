"""Rules: each looks at forecasts and proposes, or says why not."""
