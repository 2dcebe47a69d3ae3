"""The grammar of names: one for the mount, the command line and Spark.

Names are parsed into frozen values, and `str` of a value is its canonical name, which parses back into it: however a
thing is spelled, its value and its canonical name are the same. No text has two readings, and a text that has none is a
`BadNameError`, never anything else. Nothing here looks into a store: whether what a name asks for exists is found out
by who reads it.
"""
