// Package cron computes the start and the end of the warm windows of a target.
//
// Package targets uses package cron to parse the expressions in pools.yaml, and package refill gets
// the windows through targets.Warm. Package cron imports no other package of poold.
//
// # Expressions
//
// An expression has the five fields of crontab (minute hour day month weekday), or is a name such
// as @hourly or @daily. If day and weekday are both restricted, a match of either suffices. Times
// are in UTC unless the expression begins with CRON_TZ=ZONE. The zone of the machine is never used,
// and the data of all zones are part of the binary.
//
// # When clocks are set
//
//   - Forward: a window whose start is skipped begins at the time of the change.
//   - Back: a window whose start occurs twice begins only the first time. If the minute or the hour
//     field has a star, the window begins both times.
//
// # Invariants
//
//   - At any time, a Schedule from Parse has a next window, which is at most 50 years ahead.
//   - Two schedules of the same text are deeply equal, even if they were parsed at different times.
//     A reload needs this to compare targets.
package cron
