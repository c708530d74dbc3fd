package domain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of what clients may say. They are part of the API: the schema's descriptions tell them.
const (
	MaxTextBytes       = 8192 // bytes of UTF-8
	MaxUserBytes       = 128  // printable ASCII characters
	MaxClientIDBytes   = 64   // printable ASCII characters
	MaxRoomNameRunes   = 128  // characters (Unicode code points)
	maxRoomNameBytes   = MaxRoomNameRunes * utf8.UTFMax
	RuleRequired       = "REQUIRED"        // must not be empty
	RuleMaxBytes       = "MAX_BYTES"       // limit and actual are bytes of UTF-8
	RuleMaxCharacters  = "MAX_CHARACTERS"  // limit and actual are code points
	RuleBlank          = "BLANK"           // must not be white space only
	RuleControl        = "CONTROL"         // control characters are refused
	RuleBidi           = "BIDI_OVERRIDE"   // bidirectional overrides are refused
	RuleUTF8           = "UTF8"            // not valid Unicode text
	RulePrintableASCII = "PRINTABLE_ASCII" // only the characters ! to ~, no blanks
	RuleUUID           = "UUID"            // a canonical lower-case uuid
)

// InvalidField says which rule an input field breaks. It never holds the value, only its measure.
type InvalidField struct {
	Field  string // as in the GraphQL input
	Rule   string // one of the Rule constants
	Limit  int    // 0 where the rule has none
	Actual int    // the measure of the value, in the limit's unit; for CONTROL and the like the byte position
}

// InvalidInputError names every rule that the input breaks. Nothing was written.
type InvalidInputError struct{ Fields []InvalidField }

func (e *InvalidInputError) Error() string {
	names := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		names[i] = f.Field + " breaks " + f.Rule
	}
	return "invalid input: " + strings.Join(names, ", ")
}

func invalid(fields []InvalidField) error {
	if len(fields) == 0 {
		return nil
	}
	return &InvalidInputError{Fields: fields}
}

// Validate returns an *InvalidInputError that names every fault of d, or nil.
func (d Draft) Validate() error {
	var faults []InvalidField
	faults = checkToken(faults, "user", d.User, MaxUserBytes)
	faults = checkToken(faults, "clientId", d.ClientID, MaxClientIDBytes)
	return invalid(checkText(faults, d.Text))
}

// ValidateRoomName returns an *InvalidInputError for the field "name", or nil.
func ValidateRoomName(name string) error {
	const field = "name"
	switch {
	case name == "":
		return invalid([]InvalidField{{Field: field, Rule: RuleRequired}})
	case !utf8.ValidString(name):
		return invalid([]InvalidField{{Field: field, Rule: RuleUTF8}})
	}
	if n := utf8.RuneCountInString(name); n > MaxRoomNameRunes {
		return invalid([]InvalidField{{Field: field, Rule: RuleMaxCharacters, Limit: MaxRoomNameRunes, Actual: n}})
	}
	if strings.TrimSpace(name) == "" {
		return invalid([]InvalidField{{Field: field, Rule: RuleBlank}})
	}
	for i, r := range name {
		switch {
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			return invalid([]InvalidField{{Field: field, Rule: RuleControl, Actual: i}})
		case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
			return invalid([]InvalidField{{Field: field, Rule: RuleBidi, Actual: i}})
		}
	}
	return nil
}

func checkText(faults []InvalidField, text string) []InvalidField {
	const field = "text"
	switch {
	case text == "":
		return append(faults, InvalidField{Field: field, Rule: RuleRequired})
	case len(text) > MaxTextBytes:
		return append(faults, InvalidField{Field: field, Rule: RuleMaxBytes, Limit: MaxTextBytes, Actual: len(text)})
	case !utf8.ValidString(text):
		return append(faults, InvalidField{Field: field, Rule: RuleUTF8})
	}
	for i := range len(text) {
		if c := text[i]; c < 0x20 && c != '\t' && c != '\n' {
			return append(faults, InvalidField{Field: field, Rule: RuleControl, Actual: i})
		}
	}
	if strings.TrimSpace(text) == "" {
		return append(faults, InvalidField{Field: field, Rule: RuleBlank})
	}
	return faults
}

// checkToken: printable ASCII without blanks, compared exactly, so that no two spellings look alike.
func checkToken(faults []InvalidField, field, s string, limit int) []InvalidField {
	switch {
	case s == "":
		return append(faults, InvalidField{Field: field, Rule: RuleRequired})
	case len(s) > limit:
		return append(faults, InvalidField{Field: field, Rule: RuleMaxBytes, Limit: limit, Actual: len(s)})
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return append(faults, InvalidField{Field: field, Rule: RulePrintableASCII, Actual: i})
		}
	}
	return faults
}
