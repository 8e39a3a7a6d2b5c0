//! Tables that the tests write, in three forms.
