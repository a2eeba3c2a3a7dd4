// TENON_API marks what libtenon.so exports. Everything else in the library is hidden.
#pragma once

#define TENON_API __attribute__((visibility("default")))
