// Package cron computes when the warm windows of a target begin and end.
//
// internal/targets reads the expressions in pools.yaml with it, and refill asks for windows
// through targets.Warm. It imports nothing of the project.
//
// # Expressions
//
// An expression has the five fields of crontab (minute hour day month weekday), or is
// one of @hourly, @daily and their like. If day and weekday are both restricted, either
// one matches. Times are UTC unless the expression begins with CRON_TZ=ZONE. The
// zone of the machine is never used, and the zones are part of the binary.
//
// # When clocks are set
//
//   - Forward: a window whose time is skipped begins at the moment of the change.
//   - Back: a window whose time comes twice begins the first time only. If the minute or
//     the hour field has a *, it begins both times.
//
// # Invariants
//
//   - A Schedule of Parse has a next window at any moment, at most 50 years ahead.
//   - Two schedules of one text are deeply equal, also if their zone's rules were loaded
//     at different times: a reload compares targets.
package cron
