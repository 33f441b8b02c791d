package simulated

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// number2text writes a JSON number that is an id.
func number2text(n float64) string { return strconv.FormatInt(int64(n), 10) }

// create is a createTask body around the fields of a task.
func create(fields string) string {
	return `{"clientKey":"k","task":{"websiteURL":"` + testPage + `","websiteKey":"` + testSitekey + `",` + fields + `}}`
}

func TestTasksSubmitIsStrict(t *testing.T) {
	task := `"task":{"type":"RecaptchaV2TaskProxyless","websiteURL":"` + testPage + `","websiteKey":"a"}`
	for name, c := range map[string]struct {
		body string
		id   float64
		code string
	}{
		"no key":       {`{` + task + `}`, 1, "ERROR_KEY_DOES_NOT_EXIST"},
		"unknown key":  {`{"clientKey":"x",` + task + `}`, 1, "ERROR_KEY_DOES_NOT_EXIST"},
		"no task":      {`{"clientKey":"k"}`, 22, "ERROR_TASK_ABSENT"},
		"unknown type": {create(`"type":"RotateTask"`), 23, "ERROR_TASK_NOT_SUPPORTED"},
		"no type":      {create(`"minScore":0.3`), 23, "ERROR_TASK_NOT_SUPPORTED"},
		"no sitekey":   {create(`"type":"TurnstileTaskProxyless","websiteKey":""`), 110, "ERROR_BAD_PARAMETERS"},
		"no page":      {create(`"type":"TurnstileTaskProxyless","websiteURL":"x"`), 110, "ERROR_BAD_PARAMETERS"},
		"no proxy":     {create(`"type":"RecaptchaV2Task"`), 130, "ERROR_BAD_PROXY"},
		"bad score":    {create(`"type":"RecaptchaV3TaskProxyless","minScore":7`), 110, "ERROR_BAD_PARAMETERS"},
		"bad callback": {`{"clientKey":"k","callbackUrl":"x",` + task + `}`, 110, "ERROR_BAD_PARAMETERS"},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(with(func(o *Options) { o.Key = "k" }))
			v := post(t, s, "/createTask", c.body)
			want(t, "errorId", v["errorId"], any(c.id))
			want(t, "errorCode", v["errorCode"], any(c.code))
			if v["errorDescription"] == nil || v["taskId"] != nil {
				t.Errorf("answer %v", v)
			}
			want(t, "refused", s.Totals().Refused, 1)
		})
	}
	s := New(constant)
	want(t, "flag as text", post(t, s, "/createTask", `{"clientKey":"k","task":{"isInvisible":"yes"}}`)["errorCode"],
		any("ERROR_BAD_PARAMETERS"))
}

func TestTasksLife(t *testing.T) {
	for kind, field := range map[string]string{
		"RecaptchaV2TaskProxyless": "gRecaptchaResponse",
		"HCaptchaTaskProxyless":    "gRecaptchaResponse",
		"TurnstileTaskProxyless":   "token",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(with(func(o *Options) { o.Ledger, o.UserAgent = true, "Browser/1" }))
			begin := time.Now()
			id, _ := post(t, s, "/createTask", create(`"type":"`+kind+`"`))["taskId"].(float64)
			body := fmt.Sprintf(`{"clientKey":"k","taskId":%d}`, int64(id))
			time.Sleep(constant.Median - 1)
			v := post(t, s, "/getTaskResult", body)
			want(t, "early", v["status"], any("processing"))
			want(t, "early, errorId", v["errorId"], any(0.0))

			time.Sleep(time.Minute)
			v = post(t, s, "/getTaskResult", body)
			want(t, "status", v["status"], any("ready"))
			sol, _ := v["solution"].(map[string]any)
			want(t, kind, sol[field], any(s.Sold()[0].Token))
			want(t, "user agent", sol["userAgent"], any("Browser/1"))
			want(t, "created", v["createTime"], any(float64(begin.Unix())))
			want(t, "ended", v["endTime"], any(float64(begin.Add(constant.Median).Unix())))

			v = post(t, s, "/getTaskResult", fmt.Sprintf(`{"clientKey":"k","taskId":"%d"}`, int64(id)+1))
			want(t, "unknown id", v["errorCode"], any("ERROR_NO_SUCH_CAPCHA_ID"))
			want(t, "unknown id, number", v["errorId"], any(16.0))
		})
	}
}

func TestTasksOtherCalls(t *testing.T) {
	s := New(with(func(o *Options) { o.Key = "k" }))
	for _, c := range []struct {
		path, body string
		field      string
		want       any
	}{
		{"/getBalance", `{"clientKey":"k"}`, "balance", 600.0},
		{"/getBalance", `{"clientKey":"x"}`, "errorCode", "ERROR_KEY_DOES_NOT_EXIST"},
		{"/getBalance", `{`, "errorCode", "ERROR_BAD_PARAMETERS"},
		{"/getTaskResult", `{"clientKey":"x","taskId":1}`, "errorCode", "ERROR_KEY_DOES_NOT_EXIST"},
		{"/getTaskResult", `{"clientKey":"k"}`, "errorCode", "ERROR_NO_SUCH_CAPCHA_ID"},
		{"/getTaskResult", `{"clientKey":"k","taskId":{}}`, "errorCode", "ERROR_BAD_PARAMETERS"},
	} {
		want(t, c.path+" "+c.body, post(t, s, c.path, c.body)[c.field], c.want)
	}
}
