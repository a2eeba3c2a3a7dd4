// The public exceptions, for the library's own sources.
#pragma once

#include <tenon/error.h>
