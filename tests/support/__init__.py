"""What tests share: real services to start, stand-ins, trees to work on."""
