#include "train/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tenon::train {
namespace {

struct CurvePoint {
  double step, loss;
};
using Curve = std::vector<CurvePoint>;

// Sizes in pixels. The margins hold the labels of the axes.
constexpr double kWidth = 720, kHeight = 400, kLeft = 70, kRight = 20, kTop = 40, kBottom = 50;
constexpr int kTicks = 6;  // Number of intervals that an axis is cut into, about.
constexpr const char* kLossColor = "#2563eb";
constexpr const char* kEvalColor = "#d97706";

Curve curve_of(const std::vector<std::map<std::string, double>>& log, const char* key) {
  Curve out;
  for (const auto& entry : log) {
    auto loss = entry.find(key), step = entry.find("step");
    if (loss != entry.end() && step != entry.end() && std::isfinite(loss->second)) out.push_back({step->second, loss->second});
  }
  return out;
}

// Returns the distance between two ticks: 1, 2 or 5 times a power of ten.
double tick_distance(double range) {
  double raw = range / kTicks, power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) return factor * power;
  return 10 * power;
}

// One axis: values from `min` to `max`, which are multiples of `tick`, over a range of pixels.
struct Axis {
  Axis(double low, double high, double pixel_begin, double pixel_end) : begin(pixel_begin), end(pixel_end) {
    if (high <= low) low -= 0.5, high += 0.5;
    tick = tick_distance(high - low);
    min = std::floor(low / tick) * tick, max = std::ceil(high / tick) * tick;
  }
  double pixel(double value) const { return begin + (value - min) / (max - min) * (end - begin); }

  double min = 0, max = 0, tick = 0, begin, end;
};

template <class... T>
std::string line(const char* format, T... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string frame(const Axis& x, const Axis& y) {
  std::string out;
  for (double value = y.min; value <= y.max + y.tick / 2; value += y.tick) {
    double at = y.pixel(value);
    out += line("<line x1=\"%g\" y1=\"%.1f\" x2=\"%g\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft, at, kWidth - kRight, at);
    out += line("<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", kLeft - 8, at + 4, std::fabs(value) < y.tick / 2 ? 0 : value);
  }
  for (double value = x.min; value <= x.max + x.tick / 2; value += x.tick) {
    double at = x.pixel(value);
    out += line("<line x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" y2=\"%g\" stroke=\"#888\"/>\n", at, kHeight - kBottom, at, kHeight - kBottom + 5);
    out += line("<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%.12g</text>\n", at, kHeight - kBottom + 20, value);
  }
  out += line("<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"#888\"/>\n", kLeft, kHeight - kBottom, kWidth - kRight,
              kHeight - kBottom);
  out += line("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">step</text>\n", (kLeft + kWidth - kRight) / 2, kHeight - 10);
  double middle = (kTop + kHeight - kBottom) / 2;
  return out + line("<text x=\"18\" y=\"%g\" text-anchor=\"middle\" transform=\"rotate(-90 18 %g)\">loss</text>\n", middle, middle);
}

std::string drawing_of(const Curve& curve, const Axis& x, const Axis& y, const char* color, const char* name, double name_at) {
  if (curve.empty()) return "";
  std::string out = line("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"%s\" points=\"", color);
  for (const CurvePoint& point : curve) out += line("%.1f,%.1f ", x.pixel(point.step), y.pixel(point.loss));
  out += "\"/>\n";
  const CurvePoint& last = curve.back();
  out += line("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x.pixel(last.step), y.pixel(last.loss), color);
  return out + line("<text x=\"%g\" y=\"22\" fill=\"%s\">%s, last %.4g</text>\n", name_at, color, name, last.loss);
}

}  // namespace

std::string loss_curve(const std::vector<std::map<std::string, double>>& log_history) {
  Curve loss = curve_of(log_history, "loss"), eval = curve_of(log_history, "eval_loss"), all = loss;
  all.insert(all.end(), eval.begin(), eval.end());
  auto by_step = [](const CurvePoint& a, const CurvePoint& b) { return a.step < b.step; };
  auto by_loss = [](const CurvePoint& a, const CurvePoint& b) { return a.loss < b.loss; };
  std::string out = line(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  if (all.empty()) {
    out += line("<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">no loss was logged yet; lower logging_steps</text>\n", kWidth / 2,
                kHeight / 2);
    return out + "</svg>\n";
  }
  auto [lowest, highest] = std::minmax_element(all.begin(), all.end(), by_loss);
  Axis x(0, std::max_element(all.begin(), all.end(), by_step)->step, kLeft, kWidth - kRight);
  Axis y(std::min(0.0, lowest->loss), highest->loss, kHeight - kBottom, kTop);
  out += frame(x, y);
  out += drawing_of(loss, x, y, kLossColor, "training loss", kLeft);
  out += drawing_of(eval, x, y, kEvalColor, "evaluation loss", kWidth / 2);
  return out + "</svg>\n";
}

}  // namespace tenon::train
