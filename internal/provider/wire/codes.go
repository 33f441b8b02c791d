package wire

import "strconv"

// The error codes that more than one service uses.
const (
	CodeNotReady    = "CAPCHA_NOT_READY" // the protocol's own spelling
	CodeUnsolvable  = "ERROR_CAPTCHA_UNSOLVABLE"
	CodeNoKey       = "ERROR_WRONG_USER_KEY"
	CodeUnknownKey  = "ERROR_KEY_DOES_NOT_EXIST"
	CodeBadParams   = "ERROR_BAD_PARAMETERS"
	CodeNoMethod    = "ERROR_NO_SUCH_METHOD"
	CodeIDFormat    = "ERROR_WRONG_ID_FORMAT"
	CodeUnknownTask = "ERROR_WRONG_CAPTCHA_ID"
	CodeZeroBalance = "ERROR_ZERO_BALANCE"
	CodeNoSlot      = "ERROR_NO_SLOT_AVAILABLE"
	CodeDomain      = "ERROR_DOMAIN_NOT_ALLOWED"
	CodeEmptyAction = "ERROR_EMPTY_ACTION"
	CodeTurns       = "MAX_USER_TURN"
	CodeBanned      = "IP_BANNED"
	CodeNotRecorded = "REPORT_NOT_RECORDED"
	CodeDuplicate   = "ERROR_DUPLICATE_REPORT"
)

// The error codes about pictures.
const (
	CodeUpload    = "ERROR_UPLOAD"
	CodeNoImage   = "ERROR_ZERO_CAPTCHA_FILESIZE"
	CodeTooBig    = "ERROR_TOO_BIG_CAPTCHA_FILESIZE"
	CodeImageKind = "ERROR_IMAGE_TYPE_NOT_SUPPORTED"
)

// The error codes that only the protocol create_task uses.
const (
	CodeNoTask       = "ERROR_NO_SUCH_CAPCHA_ID" // the protocol's own spelling
	CodeTaskAbsent   = "ERROR_TASK_ABSENT"
	CodeNotSupported = "ERROR_TASK_NOT_SUPPORTED"
	CodeIPBlocked    = "ERROR_IP_BLOCKED"
)

// createTaskCodes maps those error codes of the protocol in_php that the protocol create_task names otherwise.
var createTaskCodes = map[string]string{
	CodeNoKey: CodeUnknownKey, CodeBanned: CodeIPBlocked, CodeTurns: CodeNoSlot, CodeNoMethod: CodeNotSupported,
	CodeIDFormat: CodeNoTask, CodeUnknownTask: CodeNoTask, CodeNotRecorded: CodeNoTask, CodeUpload: CodeImageKind,
}

// errorIDs maps the error codes of the protocol create_task to their numbers (errorId).
var errorIDs = map[string]int{
	CodeUnknownKey: 1, CodeNoSlot: 2, CodeNoImage: 3, CodeTooBig: 4, CodeZeroBalance: 10, "ERROR_IP_NOT_ALLOWED": 11,
	CodeUnsolvable: 12, "ERROR_BAD_DUPLICATES": 13, CodeNoMethod: 14, CodeImageKind: 15, CodeNoTask: 16, CodeIPBlocked: 21,
	CodeTaskAbsent: 22, CodeNotSupported: 23, "ERROR_RECAPTCHA_INVALID_SITEKEY": 31, CodeBadParams: 110,
	"ERROR_BAD_PROXY": 130,
}

// CodeOf returns the error code for a number (errorId) of the protocol create_task, or "" for an unknown
// number.
func CodeOf(errorID string) string {
	for code, id := range errorIDs {
		if strconv.Itoa(id) == errorID {
			return code
		}
	}
	return ""
}
