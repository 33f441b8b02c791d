package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"

	"poold/internal/captcha"
)

// readPicture stores the bytes of the order's picture and their hash. The argument err is the error of base64.
func (o *Submission) readPicture(image []byte, err error) {
	o.Image = image
	switch {
	case err != nil:
		o.refuse(CodeUpload, "body")
	case len(o.Image) == 0:
		o.refuse(CodeNoImage, "body")
	case len(o.Image) > captcha.MostPicture:
		o.refuse(CodeTooBig, "body")
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, http.DetectContentType(o.Image)):
		o.refuse(CodeImageKind, "body")
	default:
		hash := sha256.Sum256(o.Image)
		o.Identity.Picture.SHA256 = hex.EncodeToString(hash[:])
	}
}
