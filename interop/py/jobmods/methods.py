class Greeter(object):
    def __init__(self, greeting, mark="!"):
        self.greeting = greeting
        self.mark = mark

    def greet(self, name, times=1):
        return " ".join([self.greeting, name + self.mark] * times)

    @classmethod
    def name(cls):
        return cls.__name__

    @staticmethod
    def fixed():
        return "static"
