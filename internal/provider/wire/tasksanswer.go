package wire

import "poold/internal/captcha"

// TasksAnswer is the envelope of every answer of the tasks protocol, a callback's too.
type TasksAnswer struct {
	ErrorID          int      `json:"errorId"`
	ErrorCode        string   `json:"errorCode,omitempty"`
	ErrorDescription string   `json:"errorDescription,omitempty"`
	TaskID           int64    `json:"taskId,omitempty"`
	Status           string   `json:"status,omitempty"`
	Solution         any      `json:"solution,omitempty"` // as Solved makes it
	Cost             string   `json:"cost,omitempty"`
	IP               string   `json:"ip,omitempty"`
	CreateTime       int64    `json:"createTime,omitempty"` // Unix seconds
	EndTime          int64    `json:"endTime,omitempty"`
	SolveCount       int      `json:"solveCount,omitempty"`
	Balance          *float64 `json:"balance,omitempty"`
}

type solution struct {
	Recaptcha string `json:"gRecaptchaResponse,omitempty"` // hCaptcha's too
	Token     string `json:"token,omitempty"`
	Text      string `json:"text,omitempty"` // of a picture
	UserAgent string `json:"userAgent,omitempty"`
}

// Solved is the `solution` of a task: its text, or its named values, to which the user agent is
// added.
func Solved(t captcha.Type, text string, values map[string]string, agent string) any {
	switch t {
	case captcha.Turnstile:
		return solution{Token: text, UserAgent: agent}
	case captcha.Image:
		return solution{Text: text, UserAgent: agent}
	case captcha.GeeTest, captcha.GeeTestV4:
		if agent != "" {
			values["userAgent"] = agent
		}
		return values
	}
	return solution{Recaptcha: text, UserAgent: agent}
}

// TasksError is the answer with a code of this protocol. "Not ready" is a status instead of an
// error. why is for people.
func TasksError(code, why string) TasksAnswer {
	if code == CodeNotReady {
		return TasksAnswer{Status: "processing"}
	}
	return TasksAnswer{ErrorID: ErrorID(code), ErrorCode: code, ErrorDescription: why}
}
