"""Pictures as SVG: lines with gaps, bands, and the curves of sweeps."""

import sys
from xml.etree import ElementTree

import pytest
from fakes.recorded import recorded_session, write_log

from dlmon.figures.report.curves import TimeMark
from dlmon.figures.report.report import make_report
from dlmon.figures.sections import Line, LineChart
from dlmon.render.charts import svg_line, svg_of, write_charts
from dlmon.render.files import ReportError
from dlmon.render.plot import draw_chart, draw_sweep, ticks


def chart(*means, low=None, high=None, top=100.0, width_s=1.0):
    lines = tuple(
        Line(
            f"line {number}",
            tuple((at + 0.5) * width_s for at in range(len(mean))),
            tuple(mean),
            low or tuple(mean),
            high or tuple(mean),
        )
        for number, mean in enumerate(means)
    )
    return LineChart("CPU", "%", lines, top=top, width_s=width_s)


def line_of(plot):
    """Return the first line of a picture as it is drawn."""
    return svg_line(plot, 0)


def test_the_scale_reaches_from_the_bottom_to_the_top():
    line = line_of(draw_chart(chart([0, 100, 250])))
    ys = [float(y) for y in line["path"].replace("M", "").replace("L", " ").split()[1::2]]
    assert ys[0] > ys[1]
    # What is beyond the scale stays within the picture, and only marks within the time are drawn.
    assert ys[1] == ys[2]
    drawing = draw_chart(chart([1.0] * 10), [TimeMark(5.0, "epoch 2"), TimeMark(50.0, "epoch 9")])
    assert len(drawing.marks) == 1


def test_a_band_lies_behind_the_line_where_something_varied():
    assert line_of(draw_chart(chart([10, 20], low=(5, 20), high=(15, 30))))["band"].startswith("M")
    assert line_of(draw_chart(chart([10, 20])))["band"] == ""


def sweep(values, title="t", labels=("cpu",)):
    """Return the chart of a sweep, with what was measured by what was varied."""
    none = (None,) * len(values)
    lines = (Line(label, tuple(values), tuple(values.values()), none, none) for label in labels)
    return LineChart(title, "", tuple(lines), x_labels=tuple((x, f"${x}$") for x in values))


def metric(*points, bottom=0.0, top=4.0, is_validation=False):
    xs, values = zip(*points, strict=True)
    line = Line("training", xs, values, values, values, 0, is_validation)
    return LineChart("Loss", "", (line,), bottom, top, metric="loss")


@pytest.mark.parametrize(
    ("drawing", "pieces", "dots"),
    [
        # A value alone between gaps is seen.
        (draw_chart(chart([None, 20, None])), 1, 0),
        # Those of a metric are joined however far apart they are, but for one that was no number.
        (draw_chart(metric((1, 2.0), (50, 1.0), (51, 0.5))), 1, 3),
        (draw_chart(metric((1, 2.0), (2, 1.0), (3, None), (4, 1.0), (5, 1.0))), 2, 4),
        # A combination of a sweep without a figure is a gap.
        (draw_sweep(sweep({1: 2.0, 2: None, 4: 1.0})), 2, 2),
    ],
)
def test_what_is_not_known_is_a_gap(drawing, pieces, dots):
    line = line_of(drawing)
    assert line["path"].count("M") == pieces
    assert line["path"].count("L") >= 1
    assert len(line["dots"]) == dots


@pytest.mark.parametrize(
    ("ends", "labels"),
    [
        ((0.0, 2.5), ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]),
        ((2.16, 2.34), ["2.20", "2.25", "2.30"]),
        ((0.0, 9_000), ["0", "2,000", "4,000", "6,000", "8,000"]),
        ((-1.5, 0.5), ["-1.5", "-1.0", "-0.5", "0.0", "0.5"]),
        ((1e6, 1.002e6), ["1e+06", "1.0005e+06", "1.001e+06", "1.0015e+06", "1.002e+06"]),
        ((0.0, 3e-8), ["0", "5e-09", "1e-08", "1.5e-08", "2e-08", "2.5e-08", "3e-08"]),
    ],
)
def test_the_labels_of_an_axis_are_round_numbers(ends, labels):
    assert [label for _, label in ticks(*ends)] == labels


@pytest.mark.parametrize("lines", [1, 2, 20])
def test_a_picture_is_xml_that_stands_alone(lines):
    tree = ElementTree.fromstring(svg_of(draw_chart(chart(*[[1.0, 2.0]] * lines))))
    texts = [element.text for element in tree.iter() if element.tag.endswith("text")]
    assert "CPU (%)" in texts
    assert ("line 0" in texts) is (lines > 1)
    assert float(tree.get("height")) >= 300


def test_the_axis_of_a_sweep_is_logarithmic_where_its_values_double():
    def places(*xs):
        return [x for x, _ in draw_sweep(sweep(dict.fromkeys(xs, 1.0))).x_ticks]

    first, second, third = places(32, 64, 128)
    assert second - first == pytest.approx(third - second, abs=0.2)
    first, second, third = places(1, 2, 3)
    assert second - first == pytest.approx(third - second, abs=0.2)
    first, second, third = places(1, 2, 10)
    assert second - first < third - second


def test_pictures_are_files_that_no_log_names_and_written_through_no_link(tmp_path):
    report = make_report([write_log(tmp_path, recorded_session())], [])
    drawn = report.charts, report.metrics, report.marks, []
    written = write_charts(tmp_path / "out", *drawn)
    assert {"throughput.svg", "loss.svg", "metric-2.svg"} <= {path.name for path in written}
    assert all(ElementTree.parse(path) for path in written)
    (tmp_path / "precious").write_text("before")
    (tmp_path / "out" / "cpu.svg").unlink()
    (tmp_path / "out" / "cpu.svg").symlink_to(tmp_path / "precious")
    with pytest.raises(ReportError, match=r"cpu.svg is a link"):
        write_charts(tmp_path / "out", *drawn)
    assert (tmp_path / "precious").read_text() == "before"


@pytest.mark.slow
def test_pictures_are_png_where_that_is_asked_for(tmp_path):
    pytest.importorskip("matplotlib")
    report = make_report([write_log(tmp_path, recorded_session(gpus=2))], [])
    swept = sweep({1: 2.0, 2: None, 4: 1.0}, "time along $batch_size$", ("_gpu", "cpu"))
    written = write_charts(
        tmp_path / "out", report.charts, report.metrics, report.marks, [swept], "png"
    )
    assert {path.suffix for path in written} == {".png"}
    assert len(written) == len(report.charts) + len(report.metrics) + 1
    for path in written:
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert int.from_bytes(data[16:20], "big") == 1440


def test_without_matplotlib_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dlmon.render.png", None)
    report = make_report([write_log(tmp_path, recorded_session())], [])
    with pytest.raises(ReportError, match=r"pip install 'dlmon\[png\]'"):
        write_charts(tmp_path / "out", report.charts, report.metrics, report.marks, [], "png")
    assert not (tmp_path / "out").exists()
