package simulated

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTasksReports(t *testing.T) {
	for _, c := range []struct{ path, kind, word, other string }{
		{"/reportCorrect", "RecaptchaV2TaskProxyless", "good", ""},
		{"/reportIncorrect", "TurnstileTaskProxyless", "bad", ""},
		{"/reportCorrectRecaptcha", "RecaptchaV3TaskProxyless", "good", "HCaptchaTaskProxyless"},
		{"/reportIncorrectRecaptcha", "RecaptchaV2TaskProxyless", "bad", "TurnstileTaskProxyless"},
		{"/reportIncorrectHcaptcha", "HCaptchaTaskProxyless", "bad", "RecaptchaV2TaskProxyless"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(with(func(o *Options) { o.Key, o.Ledger = "k", true }))
			order := func(kind string) string {
				id, _ := post(t, s, "/createTask", create(`"type":"`+kind+`"`))["taskId"].(float64)
				return number2text(id)
			}
			report := func(key, id string) any {
				v := post(t, s, c.path, `{"clientKey":"`+key+`","taskId":`+id+`}`)
				if v["errorId"] == 0.0 {
					return v["status"]
				}
				return v["errorCode"]
			}
			id := order(c.kind)
			want(t, "early", report("k", id), any("REPORT_NOT_RECORDED"))
			time.Sleep(constant.Median)
			want(t, "another's key", report("x", id), any("ERROR_KEY_DOES_NOT_EXIST"))
			want(t, "not yet in the ledger", s.Sold()[0].Report, "")
			want(t, "first", report("k", id), any("success"))
			want(t, "as text", report("k", `"`+id+`"`), any("ERROR_DUPLICATE_REPORT"))
			want(t, "ledger", s.Sold()[0].Report, c.word)
			want(t, "unknown", report("k", "12"), any("ERROR_NO_SUCH_CAPCHA_ID"))
			want(t, "no id", report("k", "null"), any("ERROR_NO_SUCH_CAPCHA_ID"))
			want(t, "counted", s.Totals().ByAction[Report], 6)
			if c.other != "" {
				id = order(c.other)
				time.Sleep(constant.Median)
				want(t, "another kind", report("k", id), any("ERROR_NO_SUCH_CAPCHA_ID"))
				want(t, "not recorded", s.Sold()[1].Report, "")
			}
			s.SetFaults(Fault{On: Report, Kind: Code, Code: "ERROR_X", When: func(call Call) bool { return call.Task == id }})
			want(t, "a fault", report("k", id), any("ERROR_X"))
		})
	}
}
