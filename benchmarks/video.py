"""The image stream of the image benchmark: what its processes agree on."""

WIDTH = 1920
HEIGHT = 1080
CHANNELS = 3
RATE = 30.0
TOPIC = "/robot/image"
