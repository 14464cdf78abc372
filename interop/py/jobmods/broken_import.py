raise ImportError("this module does not want to be imported")
