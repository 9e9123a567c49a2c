"""The prompts: Jinja2 templates by stage, and the text that they are filled with."""
