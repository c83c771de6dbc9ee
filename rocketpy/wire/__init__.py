"""The remoting protocol and the stored message: bytes to objects and back, without any I/O.

Public, for tools that work on the protocol itself. Import the modules: `codes`, `command`, `frame`, `serialize`,
`fields`, `headers`, `bodies`, `message_codec`; headers and bodies load by subject.
"""
