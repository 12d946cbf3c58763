"""Training: one driver with separate parts for problem, stepper, controller, saving and stopping."""
