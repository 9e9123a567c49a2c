"""What we say to models: Jinja2 files by stage, and `render(name, **values)`; nothing else."""
