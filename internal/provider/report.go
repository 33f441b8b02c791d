package provider

import (
	"context"
	"errors"
	"time"

	"poold/internal/captcha"
)

// ErrNoReport means that Report made no call. Either the service offers no call for such a report,
// or the task id is unknown.
var ErrNoReport = errors.New("provider: accepts no report of this kind")

// ReportWindow returns how long after a solve the service accepts a report about its token.
func (c *Client) ReportWindow() time.Duration { return c.protocol.reportWindow() }

// Report reports to the service whether a site accepted the token of a task. A repeated report
// succeeds. The error is ErrNoReport, an *Error, or the error of ctx. A refused report is a fault
// of class Task.
func (c *Client) Report(ctx context.Context, task string, t captcha.Type, accepted bool) error {
	q, offered := c.protocol.ask(report, task, t, accepted)
	if !offered || task == "" {
		return ErrNoReport
	}
	_, err := c.call(ctx, report, q, captcha.Identity{})
	var fault *Error
	if errors.As(err, &fault) && fault.Class == Parameters {
		fault.Class = Task // the parameters of the report are wrong, not the parameters of the target
	}
	return err
}
