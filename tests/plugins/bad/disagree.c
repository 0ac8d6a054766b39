/* Two versions that report different speeds for the same device. */
#define BOTH
#include "../versions.c"
static int faster(int dev, struct properties_v8 *properties)
{
    int code = get_properties_v8(dev, properties);
    properties->speed = 400000;
    return code;
}
__attribute__((constructor)) static void start(void) { ncclNetPlugin_v8.get_properties = faster; }
