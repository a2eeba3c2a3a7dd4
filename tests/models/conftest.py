import pytest

import cases


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """Maps names to (directory, model of Transformers); each is created once."""
    made = {}

    def get(name):
        if name not in made:
            directory = tmp_path_factory.mktemp(name)
            model = cases.make(name)
            model.save_pretrained(directory)
            made[name] = directory, model
        return made[name]
    return get
