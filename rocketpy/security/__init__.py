"""Who a client is and how it proves that: credentials, and the signature of a request. Pure; knows no connections."""
