"""What storage's own tests are made of, shipped so that its users can test with it too.

The codec here is an oracle: written from the description of the format alone, slow, obvious, and independent
of the kernel that it judges. Nothing outside tests imports this package.
"""
