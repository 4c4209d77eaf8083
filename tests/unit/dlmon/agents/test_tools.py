"""The tools of an agent, and what it is told of them."""

from pathlib import Path

from jsonschema import Draft202012Validator

from dlmon.agents.tools import ACTIONS, QUESTIONS, schema_of

ROOT = Path(__file__).parents[4]


def test_every_parameter_of_a_tool_is_described():
    for tool in (*QUESTIONS.values(), *ACTIONS.values()):
        schema = schema_of(tool)
        assert tool.__doc__
        assert all(parameter["description"] for parameter in schema["properties"].values())
        Draft202012Validator.check_schema(schema)


def test_the_skill_is_what_the_page_for_agents_says():
    *_, skill = (ROOT / "dlmon/agents/SKILL.md").read_text().split("---\n", 2)
    _, body = skill.strip().split("\n", 1)
    assert (ROOT / "docs/agents.md").read_text().strip().endswith(body.strip())
