"""What all wrappers share: the wrapped model."""

from __future__ import annotations

from pipeline.models.base import Model, ModelProfile


class ModelWrapper(Model):
    """A `Model` around another one. Subclasses implement `complete`."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def profile(self) -> ModelProfile:
        return self.model.profile
