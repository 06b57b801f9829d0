"""One file for each sign; ``forecast.predict.health.registry`` lists them."""
