package provider

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"reflect"
	"testing"

	"poold/internal/captcha"
	"poold/internal/targets"
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
	const ok = "(ok)"
	for _, row := range []struct {
		api         targets.Protocol
		status      int
		reply, want string
		class       Class
	}{
		{targets.ProtocolInPHP, 200, `{"status":1,"request":"OK_REPORT_RECORDED"}`, ok, 0},
		{targets.ProtocolInPHP, 200, "OK_REPORT_RECORDED\n", ok, 0},
		{targets.ProtocolInPHP, 200, "OK", ok, 0},
		{targets.ProtocolInPHP, 200, `{"status":0,"request":"ERROR_DUPLICATE_REPORT"}`, ok, 0},
		{targets.ProtocolInPHP, 200, "ERROR_DUPLICATE_REPORT", ok, 0},
		{targets.ProtocolInPHP, 200, "REPORT_NOT_RECORDED", "REPORT_NOT_RECORDED", Task},
		{targets.ProtocolInPHP, 200, `{"status":0,"request":"ERROR_REPORT_NOT_RECORDED"}`, "ERROR_REPORT_NOT_RECORDED", Task},
		{targets.ProtocolInPHP, 200, "ERROR_IP_ADDRES", "ERROR_IP_ADDRES", Task},
		{targets.ProtocolInPHP, 200, "ERROR_WRONG_CAPTCHA_ID", "ERROR_WRONG_CAPTCHA_ID", Task},
		{targets.ProtocolInPHP, 200, "ERROR_BAD_PARAMETERS", "ERROR_BAD_PARAMETERS", Task},
		{targets.ProtocolInPHP, 200, "ERROR_NEW", "ERROR_NEW", Task},
		{targets.ProtocolInPHP, 200, "CAPCHA_NOT_READY", "CAPCHA_NOT_READY", Task},
		{targets.ProtocolInPHP, 200, "<html>", "html", Capacity},
		{targets.ProtocolInPHP, 404, "404 page not found", "http_404", Capacity},
		{targets.ProtocolInPHP, 500, "", "http_500", Capacity},
		{targets.ProtocolInPHP, 429, "", "http_429", Capacity},
		{targets.ProtocolInPHP, 200, "ERROR_NO_SLOT_AVAILABLE", "ERROR_NO_SLOT_AVAILABLE", Capacity},
		{targets.ProtocolInPHP, 200, "ERROR_WRONG_USER_KEY", "ERROR_WRONG_USER_KEY", Account},
		{targets.ProtocolInPHP, 403, `{"status":0,"request":"ERROR_KEY_DOES_NOT_EXIST"}`, "ERROR_KEY_DOES_NOT_EXIST", Account},
		{targets.ProtocolCreateTask, 200, `{"errorId":0,"status":"success"}`, ok, 0},
		{targets.ProtocolCreateTask, 200, `{"errorId":1,"errorCode":"ERROR_DUPLICATE_REPORT"}`, ok, 0},
		{targets.ProtocolCreateTask, 200, `{"errorId":16,"errorCode":"ERROR_NO_SUCH_CAPCHA_ID"}`, "ERROR_NO_SUCH_CAPCHA_ID", Task},
		{targets.ProtocolCreateTask, 200, `{"errorId":16}`, "ERROR_NO_SUCH_CAPCHA_ID", Task},
		{targets.ProtocolCreateTask, 200, `{"errorId":1,"errorCode":"ERROR_REPORT_NOT_RECORDED"}`, "ERROR_REPORT_NOT_RECORDED", Task},
		{targets.ProtocolCreateTask, 200, `{"errorId":110,"errorCode":"ERROR_TASK_NOT_SUPPORTED"}`, "ERROR_TASK_NOT_SUPPORTED", Task},
		{targets.ProtocolCreateTask, 200, `{"errorId":1,"errorCode":"CAPCHA_NOT_READY"}`, "CAPCHA_NOT_READY", Task},
		{targets.ProtocolCreateTask, 200, `{"errorId":1,"errorCode":"no ` + jsonKey + `, no call"}`, "no [redacted], no call", Task},
	} {
		c, _, _, says := newScriptedClient(t, targets.Provider{Protocol: row.api, Service: twoCaptcha})
		says(row.status, row.reply)
		err := c.Report(context.Background(), "5", captcha.Turnstile, false)
		if row.want == ok {
			if err != nil {
				t.Errorf("%s: %v", row.reply, err)
			}
		} else if e := faultOf(t, err); e.Code != row.want || e.Class != row.class || e.Unknown {
			t.Errorf("%s: %v", row.reply, err)
		}
	}
}
