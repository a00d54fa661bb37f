import json

from openai.types import Model

from gateway.wire.models import ListedModel, model_body, models_body

MODELS = (ListedModel("a", 1_700_000_000), ListedModel("b"))


def test_list_has_the_openai_shape() -> None:
    body = json.loads(models_body(MODELS))
    assert body["object"] == "list"
    first, second = [Model.model_validate(item, strict=True) for item in body["data"]]
    assert (first.id, first.created, second.id) == ("a", 1_700_000_000, "b")


def test_list_has_the_anthropic_shape_when_asked() -> None:
    body = json.loads(models_body(MODELS, anthropic=True))
    assert (body["first_id"], body["last_id"], body["has_more"]) == ("a", "b", False)
    assert body["data"][0] == {
        "type": "model",
        "id": "a",
        "display_name": "a",
        "created_at": "2023-11-14T22:13:20Z",
    }


def test_empty_list() -> None:
    assert json.loads(models_body(())) == {"object": "list", "data": []}
    assert json.loads(models_body((), anthropic=True))["first_id"] is None


def test_one_model() -> None:
    assert json.loads(model_body(MODELS[0]))["object"] == "model"
