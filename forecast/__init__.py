"""The product: forecasts per job and link, advice from them, backends that carry advice out."""
