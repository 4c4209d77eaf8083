"""The live screen of a person's own script: what it says in each of its states."""

from dataclasses import replace

from fakes.scripts import script_session

from dlmon.records import Epoch, Model

WIDE = (120, 40)


async def test_it_is_named_by_what_counts_its_batches_and_to_stop_it_means_to_interrupt_it(
    show_session,
):
    async with show_session(script_session(), size=WIDE, repeatable=True) as shown:
        top = shown.rows("TopLine")[0]
        assert "PyTorch 2.13.0  batch 64" in top
        assert "training  epoch 11  " in top
        assert shown.rows("ProgressLine")[0].startswith("step 0 of 100")
        assert "data wait" in "\n".join(shown.rows("AccountLine"))
        await shown.press("s")
        assert "Stop this script?" in shown.text
        await shown.press("escape", "q")
        assert "Leave it running" in shown.text
        await shown.press("escape", "a")
        assert "The script is still running." in shown.text
        assert "interrupted as by Ctrl-C; ended after 5 s more" in shown.text
        assert "series" not in shown.text
        await shown.press("escape", "question_mark")
        assert "Stops what runs, once that is confirmed." in shown.text
        assert "current batch" not in shown.text.partition("On this screen")[0]
        assert shown.launch.words == []


async def test_a_loop_whose_batches_have_no_size_is_in_steps(show_session):
    records = script_session(samples=None, steps=None)
    async with show_session(records, size=WIDE) as shown:
        assert "steps/s" in str(shown.titles("#throughput"))
        assert "samples/s" not in str(shown.titles("#throughput"))
        assert shown.rows("ProgressLine")[0].startswith("training  step 1,000")


async def test_of_a_loop_that_has_no_epochs_none_is_named(show_session):
    records = [
        replace(record, has_epochs=False) if isinstance(record, Model) else record
        for record in script_session(samples=None, steps=None)
        if not isinstance(record, Epoch)
    ]
    async with show_session(records, size=WIDE) as shown:
        assert "epoch" not in shown.rows("TopLine")[0]
        assert not shown.screen.query_one("EpochTable").display
        assert shown.screen.query_one("#loss-and-output").outer_size.width == WIDE[0]
        assert str(shown.titles("#compared")[0]) == "Steps per second"
        assert "steps/s   measured" in "\n".join(shown.rows("EpochHeadline"))
        assert "┊1" not in shown.text


async def test_steps_that_were_said_show_how_far_a_loop_without_epochs_is(show_session):
    records = [
        replace(record, has_epochs=False, steps=4000, length_from="the script's --max-iters")
        if isinstance(record, Model)
        else record
        for record in script_session(samples=None, steps=None)
        if not isinstance(record, Epoch)
    ]
    async with show_session(records, size=WIDE) as shown:
        [row] = shown.rows("ProgressLine")
        assert row.startswith("step 1,000 of 4,000  training ")
        assert "  ~ 01:00 left, training ends " in row
        assert row.endswith(" by the script's --max-iters")
