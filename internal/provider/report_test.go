package provider

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"strconv"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func TestReportCalls(t *testing.T) {
	const none = ""
	for _, row := range []struct {
		profile   string
		api       targets.Protocol
		kind      captcha.Type
		good, bad string // path or action of the report
	}{
		{captchaAI, targets.ProtocolInPHP, captcha.RecaptchaV2, "reportgood", "reportbad"},
		{other, targets.ProtocolInPHP, captcha.Turnstile, "reportgood", "reportbad"},
		{twoCaptcha, targets.ProtocolCreateTask, captcha.RecaptchaV3, "/reportCorrect", "/reportIncorrect"},
		{twoCaptcha, targets.ProtocolCreateTask, captcha.Turnstile, "/reportCorrect", "/reportIncorrect"},
		{other, targets.ProtocolCreateTask, captcha.RecaptchaV2, "/reportCorrectRecaptcha", "/reportIncorrectRecaptcha"},
		{other, targets.ProtocolCreateTask, captcha.RecaptchaV3, "/reportCorrectRecaptcha", "/reportIncorrectRecaptcha"},
		{captchaAI, targets.ProtocolCreateTask, captcha.RecaptchaV2, "/reportCorrectRecaptcha", "/reportIncorrectRecaptcha"},
		{other, targets.ProtocolCreateTask, captcha.HCaptcha, none, "/reportIncorrectHcaptcha"},
		{other, targets.ProtocolCreateTask, captcha.Image, none, "/reportIncorrectImageCaptcha"},
		{other, targets.ProtocolCreateTask, captcha.Turnstile, none, none},
		{capMonster, targets.ProtocolCreateTask, captcha.Turnstile, none, "/reportIncorrectTokenCaptcha"},
		{capMonster, targets.ProtocolCreateTask, captcha.Image, none, "/reportIncorrectImageCaptcha"},
		{capSolver, targets.ProtocolCreateTask, captcha.RecaptchaV2, none, none},
		{other, targets.ProtocolCreateTask, captcha.GeeTest, none, none},
		{other, targets.ProtocolCreateTask, captcha.GeeTestV4, none, none},
	} {
		for verdict, want := range map[bool]string{true: row.good, false: row.bad} {
			var got []received
			c, j := newServedClient(t, targets.Provider{Service: row.profile, Protocol: row.api},
				recorder(t, &got, `{"status":1,"request":"OK_REPORT_RECORDED"}`))
			err := c.Report(context.Background(), "77", row.kind, verdict)
			if want == none {
				if !errors.Is(err, ErrNoReport) || len(got) != 0 {
					t.Errorf("%+v: %v after %d calls", row, err, len(got))
				}
				continue
			}
			if err != nil || len(got) != 1 || j.last() != "report ok" {
				t.Fatalf("%+v: %v, %d calls, %s", row, err, len(got), j.last())
			}
			if row.api == targets.ProtocolInPHP {
				fields, _ := url.ParseQuery(got[0].body)
				if !reflect.DeepEqual(fields, url.Values{"key": {canary}, "json": {"1"}, "action": {want}, "id": {"77"}}) ||
					got[0].uri != "/res.php" {
					t.Errorf("%+v sends %s %v", row, got[0].uri, fields)
				}
				continue
			}
			var sent map[string]any
			_ = json.Unmarshal([]byte(got[0].body), &sent)
			if !reflect.DeepEqual(sent, map[string]any{"clientKey": canary, "taskId": 77.0}) || got[0].uri != want {
				t.Errorf("%+v sends %s %v", row, got[0].uri, sent)
			}
		}
	}
	c, _, w, _ := newScriptedClient(t, targets.Provider{})
	if err := c.Report(context.Background(), "", captcha.Turnstile, true); !errors.Is(err, ErrNoReport) || w.count() != 0 {
		t.Errorf("a task without an id: %v", err)
	}
}

func TestAnswersToReports(t *testing.T) {
	checkReplies(t, "reports.txt", func(heading []string, reply string) string {
		c, _, _, says := newScriptedClient(t, targets.Provider{Protocol: targets.Protocol(heading[0]), Service: twoCaptcha})
		status, err := strconv.Atoi(heading[1])
		testkit.NoError(t, err)
		says(status, reply)
		if err = c.Report(t.Context(), "5", captcha.Turnstile, false); err == nil {
			return "recorded"
		}
		e := faultOf(t, err)
		testkit.Equal(t, reply+": unknown", e.Unknown, false)
		return e.Class.String() + " " + e.Code
	})
}
