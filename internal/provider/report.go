package provider

import (
	"context"
	"errors"
	"strings"
	"time"

	"poold/internal/captcha"
)

// ErrNoReport is the error of Report if the service has no call for the report, or if the task's
// id is unknown. No call was made.
var ErrNoReport = errors.New("provider: accepts no report of this kind")

const (
	// 2captcha takes a report for 15 minutes after the answer; its client's
	// text for REPORT_NOT_RECORDED says so. The other services that speak its
	// first protocol copy it.
	longWindow = 15 * time.Minute
	// anti-captcha's reference of reportIncorrectRecaptcha names 60 s, and the
	// services that copied its protocol say nothing else.
	shortWindow = time.Minute

	duplicateReport = "ERROR_DUPLICATE_REPORT"
)

// ReportWindow returns the time after a solve in which the service accepts a report about it.
func (c *Client) ReportWindow() time.Duration {
	if c.cfg.API == APILegacy || c.profile.name == twoCaptcha || c.profile.name == otherPoold {
		return longWindow
	}
	return shortWindow
}

// Report tells the service whether the site accepted a task's token. A repeated report succeeds. The
// error is ErrNoReport, an *Error, or ctx's; a refused report is a fault of class Task. No report is
// made during a fault or an outage. Only an account fault and a rate limit in the answer affect other
// calls, because a service without this call may answer it with an HTML page.
func (c *Client) Report(ctx context.Context, task string, t captcha.Type, good bool) error {
	q, offered := c.speak.report(task, t, good)
	if !offered || task == "" {
		return ErrNoReport
	}
	_, err := c.call(ctx, report, q, "")
	var fault *Error
	if errors.As(err, &fault) && fault.Class == Parameters {
		fault.Class = Task // the call's own parameters, not the target's
	}
	return err
}

// reported converts the answer to a report.
func reported(a answer, err error) (answer, error) {
	switch {
	case err != nil:
		return answer{}, err
	case a.notReady:
		return answer{code: "CAPCHA_NOT_READY"}, nil // a refusal, as for any other code
	case strings.HasPrefix(a.code, duplicateReport):
		return answer{}, nil
	}
	return answer{code: a.code}, nil
}
