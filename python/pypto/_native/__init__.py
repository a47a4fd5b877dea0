"""What the extension has, one module for each part of it, with the types that belong to it.

The extension is one module, and its types are more than one file should hold; a stub can only be compared with a module
that exists. Programs import what is here from `pypto.runtime`.
"""
